"""The engine of attn-tui: models, weights, mathematics and attention, with no knowledge of any screen.

Its floors, from the ground up: ``values`` (what crosses to the screen), ``mathematics`` (pure functions),
``models`` (files, architectures, sentences) and ``service`` (the engine thread). Imports only go down.
Nothing on the way to the first frame imports torch.
"""
