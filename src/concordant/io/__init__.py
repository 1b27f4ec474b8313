"""Files and dataframes to containers, and back. The only room that reads and writes."""
