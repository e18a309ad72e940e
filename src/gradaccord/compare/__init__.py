"""Compares methods over several seeds at equal budgets: runs, statistics, tables, sweeps."""
