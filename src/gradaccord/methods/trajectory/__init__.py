"""Several steps become one update or one mean: Reptile, Sequential Reptile, FOMAML, Averaged."""
