scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  provider "e" {
    alias = "only"
  }
  action "echo" "a" {
    provider = e.only
    text     = "x"
  }
}
