"""An open model, its spectra, and one module per view. Imports models and what is below; service and library use it."""
