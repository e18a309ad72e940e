"""What every kind of run shares: its folder, lock, log, checkpoints, interrupts and results."""
