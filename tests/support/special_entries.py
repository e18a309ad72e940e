"""An entry of a special experiment."""

TEXT = """
title: A special experiment
claim: Something is found.
kind: {kind}
published: {{source: nothing}}
small:
  config: {config}
  arms: {{all: {{}}}}
  seeds: 1
"""
