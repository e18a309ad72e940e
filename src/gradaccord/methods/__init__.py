"""The methods: combination, alignment, trajectories, regularisers, and the registry that knows them."""
