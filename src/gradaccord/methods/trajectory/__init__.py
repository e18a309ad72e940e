"""Several optimiser steps become one update: Reptile, Sequential Reptile, FOMAML."""
