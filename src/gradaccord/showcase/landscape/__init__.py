"""The 2-D problem with three optima of Lee et al. 2022: which methods are trapped, which escape?

from gradaccord.showcase.landscape.runs import run

result = run(seeds=16)
"""
