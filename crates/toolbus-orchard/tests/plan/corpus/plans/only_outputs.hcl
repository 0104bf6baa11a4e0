scenario "only outputs" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals {
    greeting = "hello"
    words    = [for word in ["a", "b"] : upper(word)]
  }
  output "line" { value = "${local.greeting}, ${join(" ", local.words)}" }
  output "all" {
    value       = { words = local.words, count = length(local.words) }
    description = "everything"
  }
}
