scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "long" { text = join("", [for i in range(100) : "word${i} "]) }
}
