"""The jobs, one package each. A job turns settings into a plan of tasks, runs the tasks and combines their results."""
