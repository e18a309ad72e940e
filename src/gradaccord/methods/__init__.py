"""The methods: combination, alignment, trajectories, regularisers, and their registry."""
