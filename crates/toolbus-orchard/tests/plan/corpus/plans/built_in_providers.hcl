scenario "built in" {
  required_providers {
    exec = { source = "builtin/exec" }
    web  = { source = "builtin/http" }
  }
  provider "web" { base_url = "http://localhost:1" }
  action "exec_run" "now" {
    command = "date"
    env     = { LANG = "C" }
  }
  action "http_request" "post" {
    url    = "/times"
    method = "POST"
    body   = jsonencode({ now = trimspace(action.exec_run.now.stdout) })
  }
  output "status" { value = action.http_request.post.status }
}
