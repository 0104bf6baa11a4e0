scenario "s" {
  required_providers {
    e     = { source = "exec:../providers/echo" }
    vault = { source = "exec:../providers/vault" }
  }
  provider "vault" {
    url   = "u"
    token = "none"
  }
  action "echo" "a" { text = "x" }
}
