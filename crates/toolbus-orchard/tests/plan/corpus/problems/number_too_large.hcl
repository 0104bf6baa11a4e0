scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  output "o" { value = pow(10, 60) }
}
