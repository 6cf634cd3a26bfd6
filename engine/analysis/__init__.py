"""Open models, and one module per view that works its rows out; only ``engine.service`` and users import this."""
