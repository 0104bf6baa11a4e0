scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "noop" "a" {}
}
