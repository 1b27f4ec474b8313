"""The command line, one file per command. Every module is light to import; what does the work is imported late."""
