"""Terms added to a loss or to a step: SMART, SWEP, RecAdam."""
