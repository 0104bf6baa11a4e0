scenario "patience" {
  required_providers {
    e     = { source = "exec:../providers/echo" }
    vault = { source = "exec:../providers/vault" }
  }
  provider "vault" {
    url   = "u"
    token = "none"
  }
  action "echo" "ours" {
    provider   = e
    text       = "a"
    timeout    = "1m30s"
    idempotent = true
    retry {
      attempts = 3
      delay    = "500ms"
      backoff  = 2
      on       = ["execute_failed", "busy"]
    }
    lifecycle { timeout = "2s" }
  }
  action "secret" "theirs" {
    path    = "p"
    timeout = 60
    lifecycle { timeout = "10s" }
  }
}
