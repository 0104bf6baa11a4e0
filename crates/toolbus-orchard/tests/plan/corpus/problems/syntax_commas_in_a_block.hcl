scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" {
    text = "x"
    retry { attempts = 3, delay = "1s" }
  }
}
