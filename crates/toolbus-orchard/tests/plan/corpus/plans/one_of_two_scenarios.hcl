# --scenario two
scenario "one" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "noop" "a" {}
}
scenario "two" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "noop" "b" {}
}
