scenario "shop" {
  required_providers {
    pg = { source = "builtin/postgres" }
  }
  variable "dsn" {
    type      = string
    sensitive = true
  }
  provider "pg" { dsn = var.dsn }

  action "postgres_query" "table" {
    query = <<-SQL
      create table "order" (
        id int primary key, name text, price numeric(8,2), paid bool, day date, doc jsonb, big numeric
      )
    SQL
    lifecycle {
      teardown { query = "drop table \"order\"" }
    }
  }
  action "postgres_copy" "data" {
    table      = "public.order"
    columns    = ["id", "name", "price", "paid", "day", "doc", "big"]
    data       = <<-CSV
      1,"O'Hara, ""Bob""",12.50,true,2026-01-02,"{""a"":[1,2.5]}",123456789012345678901234567890
      2,two,0.00,false,2026-01-03,,
    CSV
    depends_on = [action.postgres_query.table]
  }
  action "postgres_copy" "file" {
    table      = "order"
    columns    = ["id", "name"]
    file       = "rows.csv"
    header     = true
    delimiter  = ";"
    depends_on = [action.postgres_copy.data]
  }
  action "postgres_copy" "tabs" {
    table      = "order"
    columns    = ["id", "name"]
    format     = "tsv"
    data       = "6\tsix\n"
    depends_on = [action.postgres_copy.file]
  }
  action "postgres_query" "count" {
    query      = "select count(*) as n from \"order\""
    depends_on = [action.postgres_copy.tabs]
  }
  action "postgres_query" "row" {
    query      = "select *, null as nothing from \"order\" order by id"
    depends_on = [action.postgres_query.count]
  }
  action "postgres_query" "none" {
    query      = "select 1 where false"
    depends_on = [action.postgres_query.row]
  }

  output "copied" {
    value = [
      action.postgres_copy.data.rows_copied,
      action.postgres_copy.file.rows_copied,
      action.postgres_copy.tabs.rows_copied,
    ]
  }
  output "count" { value = action.postgres_query.count.n }
  output "none" { value = action.postgres_query.none }
  output "row" { value = action.postgres_query.row }
}
