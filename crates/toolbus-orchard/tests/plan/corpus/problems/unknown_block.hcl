scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  acton "echo" "a" {
    text = "x"
  }
  action "echo" "b" {
    text = "x"
    provider {}
    retyr { attempts = 1 }
  }
}
