"""The contract every method keeps: parameters, tags, fitting, predicting, saving."""
