"""Pure functions on numbers: spectra, measures, chance, circuits, composition, patterns. Imports values alone."""
