scenario "aliases" {
  required_providers {
    e     = { source = "exec:../providers/echo" }
    vault = { source = "exec:../providers/vault" }
  }
  provider "e" {
    alias    = "loud"
    greeting = upper("hey")
  }
  provider "vault" {
    url   = "http://localhost"
    token = "none"
  }
  action "echo" "plain" {
    provider = e
    text     = "a"
  }
  action "echo" "loud" {
    provider = e.loud
    text     = "b"
  }
  action "echo" "vaulted" {
    provider = "vault"
    text     = "c"
  }
}
