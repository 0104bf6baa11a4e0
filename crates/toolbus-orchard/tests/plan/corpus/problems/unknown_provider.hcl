scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  provider "f" {}
  action "echo" "a" {
    provider = ee
    text     = "x"
  }
  action "echo" "b" {
    provider = e.loud
    text     = "x"
  }
  action "echo" "c" {
    provider = ["e"]
    text     = "x"
  }
}
