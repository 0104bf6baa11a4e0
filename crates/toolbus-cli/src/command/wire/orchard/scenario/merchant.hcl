# A component: actions that belong together, with inputs and outputs, to be used by scenarios.
component "merchant" {
  variable "name" {
    type        = string
    description = "what the merchant is called"
  }

  variable "greeting" {
    type    = string
    default = "hello"
  }

  action "exec_run" "answer" {
    command = "echo"
    args    = ["${var.name} heard: ${var.greeting}"]
    lifecycle {
      teardown {
        command = "echo"
        args    = ["goodbye ${var.name}"]
      }
    }
  }

  output "line" { value = trimspace(action.exec_run.answer.stdout) }
}
