# --var token=s3cr3t
scenario "shop" {
  description = "two echoes"
  tags        = ["demo"]
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "word"  { default = "a" }
  variable "token" {
    type      = string
    sensitive = true
  }
  provider "e" { greeting = var.token }
  action "echo" "first" {
    text = var.word
    lifecycle {
      teardown { text = "undo ${self.text}" }
    }
  }
  component "greeter" "g" {
    source = "../components/greeter.hcl"
    inputs = { who = action.echo.first.text }
  }
  output "said"  { value = component.greeter.g.line }
  output "token" { value = var.token }
}
