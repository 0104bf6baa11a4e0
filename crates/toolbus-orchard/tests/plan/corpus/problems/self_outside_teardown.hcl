scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" {
    text = self.text
    lifecycle {
      teardown { text = self.text }
    }
  }
}
