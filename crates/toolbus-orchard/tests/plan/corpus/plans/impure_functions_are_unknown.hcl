scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals { id = uuid() }
  action "echo" "a" { text = "run ${local.id} at ${timestamp()}" }
}
