"""The demo and the landscape."""
