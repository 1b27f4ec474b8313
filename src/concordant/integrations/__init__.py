"""Fusion inside other frameworks: LangChain, LlamaIndex, Haystack and PyTerrier, an extra and a module each."""
