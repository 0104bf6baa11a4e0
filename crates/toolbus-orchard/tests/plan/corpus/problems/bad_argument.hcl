scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  output "o" { value = upper("a", "b") }
  output "p" { value = parseint("9", 99) }
}
