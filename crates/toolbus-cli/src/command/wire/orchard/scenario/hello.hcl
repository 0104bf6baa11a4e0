# A first scenario. Plan it, then run it:
#
#   toolbus orchard plan scenarios/hello.hcl
#   toolbus orchard run scenarios/hello.hcl
scenario "hello" {
  description = "greets the world, then a merchant"
  tags        = ["demo"]

  required_providers {
    exec = { source = "builtin/exec" }
  }

  variable "name" {
    type        = string
    default     = "world"
    description = "who is greeted"
  }

  action "exec_run" "greet" {
    command = "echo"
    args    = ["hello ${var.name}"]
  }

  # What an action gives can be used by others, which then wait for it.
  component "merchant" "first" {
    source = "../components/merchant.hcl"
    inputs = {
      name     = "Mel"
      greeting = trimspace(action.exec_run.greet.stdout)
    }
  }

  output "said" { value = component.merchant.first.line }
}
