"""The gradient bank and what it stands on: parameters, engines, Gram matrix, random-state replay."""
