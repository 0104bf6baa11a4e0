scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "loud" { default = false }
  action "echo" "a" {
    text = <<-EOT
      ${var.loud ? upper("x") : "x"}
        %{ if var.loud }loud%{ else }quiet%{ endif }
    EOT
  }
  action "echo" "b" { text = try(jsondecode("{").a, "fallback") }
}
