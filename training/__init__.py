"""Recipes: one YAML file per base model says how it generates and, later in the pipeline, how it is trained."""
