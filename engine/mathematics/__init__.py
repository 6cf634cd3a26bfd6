"""Pure functions on numbers: measures of spectra, spectra of factored products, tables. No files, no models."""
