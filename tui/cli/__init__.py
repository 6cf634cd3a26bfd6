"""The command line: commands, options, settings and keys from a file; nothing else imports it."""
