scenario "one" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
}
scenario "two" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
}
