"""Tables of real rows -> cases -> prompts: the data stage, and the ids by which every other stage names its inputs."""
