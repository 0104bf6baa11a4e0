a = "from a file"
b = 2
c = ["y"]
