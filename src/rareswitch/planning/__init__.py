"""From a budget of deployments to a schedule: candidates, guarantees, simulation and choice.

Budgets, limits and prices count deployments after the first, whether or not they change an action.
"""
