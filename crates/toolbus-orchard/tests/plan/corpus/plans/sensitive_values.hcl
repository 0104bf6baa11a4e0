# --var token=s3cr3t --var pin=12
scenario "sensitive" {
  required_providers {
    vault = { source = "exec:../providers/vault" }
  }
  variable "token" {
    type      = string
    sensitive = true
  }
  variable "pin" {
    type      = number
    sensitive = true
  }
  provider "vault" {
    url   = "https://vault.test"
    token = var.token
  }
  action "secret" "one" {
    path   = "keys/${var.pin}"
    labels = { plain = "visible", hidden = var.token }
  }
  action "policy" "two" {
    # The text of a secret is masked even where it is no longer sensitive.
    rules = [{ path = nonsensitive("say ${var.token}") }]
  }
  output "value" { value = action.secret.one.value }
  output "length" { value = nonsensitive(var.pin) + 1 }
}
