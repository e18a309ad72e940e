"""The demo: do gradient methods beat plain multi-task training, on real names, and at what cost?"""
