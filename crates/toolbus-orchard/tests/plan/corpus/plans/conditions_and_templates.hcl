scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "loud" { default = false }
  action "echo" "a" {
    text = <<-EOT
      %{ for word in ["x", "y"] ~}
      ${var.loud ? upper(word) : word}
      %{ endfor ~}
    EOT
  }
  action "echo" "b" { text = try(jsondecode("{").a, "fallback") }
}
