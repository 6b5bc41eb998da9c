"""Choose a schedule for a budget of deployments: candidates, guarantees, simulation, choice.

Budgets, limits and prices count all deployments after the first, even if no action changes.
"""
