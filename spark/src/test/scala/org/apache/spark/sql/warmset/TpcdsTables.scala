package org.apache.spark.sql.warmset

import org.apache.spark.sql.warmset.TpcdsData.{at, Table, Values}

/** How the columns of each table are made that the queries filter on, join by or compute with. */
private object TpcdsTables {
  private val Items = 120
  private val Customers = 120
  private val Addresses = 60
  private val Demographics = 210
  private val Households = 350
  private val Stores = 6
  /** The day of number 0, 1998-01-01, as a Julian day. Facts are of the 1,826 days from it on. */
  private val FirstDay = 2450815
  /** Orders of one line each, of three items and six days: the same in all three channels. */
  private val Shared = 108
  /** Sex, marital and educational status which queries ask for. */
  private val Frequent = Seq(23, 51, 37, 62, 41, 35, 57, 61)

  /** First day and length of what queries ask for, as days since the first. */
  private val Windows = Seq(
    90 -> 90, 120 -> 30, 243 -> 30, 304 -> 61, 417 -> 31, 608 -> 30, 669 -> 30, 730 -> 31, 756 -> 60, 799 -> 60, 945 -> 50, 1035 -> 30,
    1096 -> 59, 1186 -> 91, 1308 -> 31, 1400 -> 30, 1430 -> 31, 1461 -> 120)

  def apply(name: String, values: Values): Table = name match {
    case "store_sales" => sales("ss", "ticket_number", 2500, values)
    case "catalog_sales" => sales("cs", "order_number", 1250, values)
    case "web_sales" => sales("ws", "order_number", 1250, values)
    case "store_returns" => returns("sr", "ss", "ticket_number", values)
    case "catalog_returns" => returns("cr", "cs", "order_number", values)
    case "web_returns" => returns("wr", "ws", "order_number", values)
    case "inventory" => inventory(values)
    case "date_dim" => dates
    case "time_dim" => times
    case other => dimension(other, values)
  }

  private def rows(n: Int): String = s"select id, id + 1 as sk from range(0, $n, 1, 1)"

  private def day(values: Values): String = {
    val window = values.of("window").pick(Windows.size)
    val inWindow = s"${at(window, Windows.map(_._1): _*)} + pmod(${values.of("in").pick(1 << 30)}, ${at(window, Windows.map(_._2): _*)})"
    s"$FirstDay + if(${values.of("any").pick(100)} < 55, ${values.of("day").pick(1826)}, $inWindow)"
  }

  /** Of the day's minutes, in seconds. */
  private def second(values: Values): String = {
    def minute(name: String, from: Int, n: Int) = s"$from + ${values.of(name).pick(n)}"
    s"60 * case ${values.of("part").pick(5)} when 0 then ${minute("a", 480, 300)} when 1 then ${minute("b", 480, 300)} " +
      s"when 2 then ${minute("c", 1140, 120)} else ${minute("d", 0, 1440)} end"
  }

  private def demographics(values: Values): String =
    s"if(${values.of("frequent").pick(3)} > 0, ${values.one(Frequent: _*)}, 1 + ${values.of("other").pick(Demographics)})"

  /** Lines of orders: 1 to 5 and sometimes 16 of each, of different items; the first `Shared` orders are alike in all channels. */
  private def sales(p: String, order: String, orders: Int, values: Values): Table = {
    def byOrder(name: String) = values.of(name, "o")
    def key(name: String, n: Int, by: Values) = s"${p}_$name" -> s"1 + ${by.of(name).pick(n)}"
    val lines = s"select id as o, id < $Shared as shared, explode(sequence(0, if(id < $Shared, 1, " +
      s"${at("id % 10", 1, 2, 3, 4, 5, 2, 3, 16, 1, 3)}) - 1)) as line from range(0, $orders, 1, 2)"
    val first = s"select *, o * 32 + line as id from ($lines)"
    val goods = s"select *, if(shared, 40, 1 + ${values.of("quantity").pick(100)}) as quantity, " +
      s"if(shared, 30bd, ${values.of("wholesale").cents(1, 100)}) as wholesale, " +
      s"if(shared, 1 + o % 3, 4 + pmod(${byOrder("item").pick(Items - 3)} + line * 7, ${Items - 3})) as item, " +
      s"if(shared, ${at("o div 3 % 6", 733, 770, 1075, 709, 1414, 1500)} + $FirstDay, ${day(byOrder("day"))}) as day, " +
      s"if(shared, 1 + o % 10, 1 + ${byOrder("customer").pick(Customers)}) as customer from ($first)"
    // Of a third the profit is small.
    val price = s"select *, cast(case when shared then 50 when ${values.of("small").pick(3)} = 0 " +
      s"then wholesale + (50 + ${values.of("gain").pick(200)}) / quantity " +
      s"else wholesale * (20 + ${values.of("price").pick(180)}) / 100 end as decimal(7,2)) as price from ($goods)"
    val listed = s"select *, cast(price * (100 + ${values.of("list").pick(60)}) / 100 as decimal(7,2)) as listed, " +
      s"quantity * price as paid, quantity * ${values.of("ship").cents(0, 20)} as ship, quantity * wholesale as cost from ($price)"
    val coupons = s"select *, cast(if(shared or ${values.of("coupon").pick(5)} > 0, 0, paid * ${values.of("off").pick(100)} / 100) " +
      s"as decimal(7,2)) as coupon, cast(paid * ${values.of("tax").pick(9)} / 100 as decimal(7,2)) as tax from ($listed)"
    val common = Map(
      s"${p}_sold_date_sk" -> "day", s"${p}_sold_time_sk" -> second(byOrder("time")), s"${p}_item_sk" -> "item",
      s"${p}_$order" -> "o + 1", s"${p}_quantity" -> "quantity", s"${p}_wholesale_cost" -> "wholesale", s"${p}_list_price" -> "listed",
      s"${p}_sales_price" -> "price", s"${p}_ext_discount_amt" -> "quantity * (listed - price)", s"${p}_ext_sales_price" -> "paid",
      s"${p}_ext_wholesale_cost" -> "cost", s"${p}_ext_list_price" -> "quantity * listed", s"${p}_ext_tax" -> "tax",
      s"${p}_coupon_amt" -> "coupon", s"${p}_net_paid" -> "paid - coupon", s"${p}_net_paid_inc_tax" -> "paid - coupon + tax",
      s"${p}_net_profit" -> "paid - coupon - cost", key("promo_sk", 30, values))
    val shipped = Map(
      s"${p}_ship_date_sk" -> s"day + 2 + ${byOrder("shipped").pick(130)}", s"${p}_ext_ship_cost" -> "ship",
      s"${p}_net_paid_inc_ship" -> "paid - coupon + ship", s"${p}_net_paid_inc_ship_tax" -> "paid - coupon + ship + tax",
      s"${p}_bill_customer_sk" -> "customer", s"${p}_bill_cdemo_sk" -> demographics(byOrder("cdemo")),
      s"${p}_ship_customer_sk" -> s"if(${byOrder("gift").pick(5)} = 0, 1 + customer * 7 % $Customers, customer)",
      s"${p}_ship_cdemo_sk" -> demographics(byOrder("cdemo2")), key("bill_hdemo_sk", Households, byOrder("b")),
      key("bill_addr_sk", Addresses, byOrder("b")), key("ship_hdemo_sk", Households, byOrder("s")),
      key("ship_addr_sk", Addresses, byOrder("s")), key("ship_mode_sk", 20, values), key("warehouse_sk", 5, values))
    val own = p match {
      case "ss" => Map("ss_customer_sk" -> "customer", "ss_cdemo_sk" -> demographics(byOrder("cdemo")),
        key("hdemo_sk", Households, byOrder("s")), key("addr_sk", Addresses, byOrder("s")), key("store_sk", Stores, byOrder("s")))
      case "cs" => shipped ++ Map(key("call_center_sk", 4, byOrder("c")), key("catalog_page_sk", 40, values))
      case "ws" => shipped ++ Map(key("web_page_sk", 20, values), key("web_site_sk", 6, byOrder("w")))
    }
    Table(coupons, common ++ own, Set(s"${p}_item_sk", s"${p}_$order"), 30)
  }

  /** A quarter of the lines sold, half of them whole. */
  private def returns(p: String, s: String, order: String, values: Values): Table = {
    val sold = Map("ss" -> "store_sales", "cs" -> "catalog_sales", "ws" -> "web_sales")(s)
    val line = s"select *, xxhash64(${s}_$order, ${s}_item_sk) as id from $sold where ${s}_$order > $Shared"
    val some = s"select *, if(${values.of("whole").pick(2)} = 0, ${s}_quantity, " +
      s"1 + pmod(${values.of("part").pick(1000)}, ${s}_quantity)) as quantity from ($line) where ${values.of("returned").pick(4)} = 0"
    val amounts = s"select *, cast(quantity * ${s}_sales_price as decimal(7,2)) as amount, ${values.of("fee").cents(1, 100)} as fee, " +
      s"${values.of("ship").cents(1, 300)} as ship from ($some)"
    val day = s"${s}_sold_date_sk + 1 + ${values.of("later").pick(150)}"
    val (date, time) = if (p == "sr") ("returned_date_sk", "return_time_sk") else ("returned_date_sk", "returned_time_sk")
    val common = Map(
      s"${p}_$date" -> day, s"${p}_$time" -> second(values.of("time")), s"${p}_item_sk" -> s"${s}_item_sk",
      s"${p}_$order" -> s"${s}_$order", s"${p}_reason_sk" -> s"1 + ${values.of("reason").pick(35)}",
      s"${p}_return_quantity" -> "quantity", s"${p}_${if (p == "cr") "return_amount" else "return_amt"}" -> "amount",
      s"${p}_return_tax" -> "amount / 20", s"${p}_return_amt_inc_tax" -> "amount + amount / 20", s"${p}_fee" -> "fee",
      s"${p}_return_ship_cost" -> "ship", s"${p}_refunded_cash" -> "amount / 2", s"${p}_reversed_charge" -> "amount * 3 / 10",
      s"${p}_${if (p == "wr") "account_credit" else "store_credit"}" -> "amount / 5", s"${p}_net_loss" -> "amount / 20 + fee + ship")
    val parties = Seq("customer", "cdemo", "hdemo", "addr").flatMap { who =>
      val bought = s"${s}_bill_${who}_sk"
      Seq(s"${p}_refunded_${who}_sk" -> bought,
        s"${p}_returning_${who}_sk" -> s"if(${values.of("other").pick(5)} = 0, ${bought.replace("bill", "ship")}, $bought)")
    }
    def same(names: String*) = names.map(n => s"${p}_$n" -> s"${s}_$n").toMap
    val own = p match {
      case "sr" => same("customer_sk", "cdemo_sk", "hdemo_sk", "addr_sk", "store_sk")
      case "cr" => same("call_center_sk", "catalog_page_sk", "ship_mode_sk", "warehouse_sk") ++ parties
      case "wr" => same("web_page_sk") ++ parties
    }
    Table(amounts, common ++ own, Set(s"${p}_item_sk", s"${p}_$order"), 40)
  }

  /** Each Thursday, half of the items, each in one warehouse: often few, sometimes many. */
  private def inventory(values: Values): Table = {
    val few = s"if(${values.of("many").pick(4)} = 0, 100 + ${values.of("large").pick(700)}, ${values.of("small").pick(60)})"
    Table(s"select id, id div 60 as week, id % 60 as item from range(0, ${261 * 60}, 1, 2)",
      Map("inv_date_sk" -> s"$FirstDay + 7 * week", "inv_item_sk" -> "1 + item", "inv_warehouse_sk" -> "1 + item % 5",
        "inv_quantity_on_hand" -> few),
      Set("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"), 40)
  }

  /** From December 1997 on, until what was sold last has been returned. Weeks begin on Mondays. */
  private def dates: Table = {
    val rows = "select id, id - 31 as n, date_add(date'1997-12-01', cast(id as int)) as d from range(0, 2100, 1, 1)"
    val months = "(year(d) - 1900) * 12 + month(d) - 1"
    val quarters = "(year(d) - 1900) * 4 + quarter(d) - 1"
    val weeks = "5000 + floor((n + 3) / 7)"
    val columns = Map(
      "d_date_sk" -> s"$FirstDay + n", "d_date_id" -> "concat('DAY', n)", "d_date" -> "d", "d_month_seq" -> months,
      "d_week_seq" -> weeks, "d_quarter_seq" -> quarters, "d_year" -> "year(d)", "d_dow" -> "dayofweek(d) - 1",
      "d_moy" -> "month(d)", "d_dom" -> "day(d)", "d_qoy" -> "quarter(d)", "d_fy_year" -> "year(d)", "d_fy_quarter_seq" -> quarters,
      "d_fy_week_seq" -> weeks, "d_day_name" -> "date_format(d, 'EEEE')", "d_quarter_name" -> "concat(year(d), 'Q', quarter(d))",
      "d_weekend" -> "if(dayofweek(d) in (1, 7), 'Y', 'N')", "d_same_day_ly" -> s"$FirstDay + n - 365",
      "d_same_day_lq" -> s"$FirstDay + n - 91")
    Table(rows, columns, columns.keySet, 30)
  }

  /** Each minute of a day. */
  private def times: Table = {
    val columns = Map(
      "t_time_sk" -> "id * 60", "t_time_id" -> "concat('TIME', id)", "t_time" -> "id * 60", "t_hour" -> "id div 60",
      "t_minute" -> "id % 60", "t_second" -> "0", "t_am_pm" -> "if(id < 720, 'AM', 'PM')",
      "t_shift" -> at("id div 480", "third", "first", "second"),
      "t_sub_shift" -> at("id div 360", "night", "morning", "afternoon", "evening"),
      "t_meal_time" -> ("case when id div 60 between 6 and 9 then 'breakfast' when id div 60 between 11 and 13 then 'lunch' " +
        "when id div 60 between 17 and 20 then 'dinner' end"))
    Table("select id from range(0, 1440, 1, 1)", columns, columns.keySet, 0)
  }

  private val states = Seq("TN", "GA", "TX", "OH", "KY", "IN", "NM", "VA", "IL", "CA", "WI", "MN")
  private val counties = Seq("Williamson County", "Rush County", "Toole County", "Jefferson County", "Dona Ana County",
    "La Porte County", "Franklin Parish", "Bronx County", "Orange County")
  private val cities = Seq("Midway", "Fairview", "Edgewood", "Oak Grove")
  private val zips = Seq("24128", "76232", "65084", "85669")

  private val educations = Seq("Primary", "Secondary", "College", "2 yr Degree", "4 yr Degree", "Advanced Degree", "Unknown")

  private def place(p: String, country: String = "United States"): Map[String, String] = Map(
    s"${p}_city" -> at("id % 4", cities: _*), s"${p}_county" -> at("id % 9", counties: _*), s"${p}_state" -> at("id % 12", states: _*),
    s"${p}_zip" -> at("id div 2 % 4", zips: _*), s"${p}_country" -> s"'$country'")

  private def dimension(name: String, values: Values): Table = {
    def v(column: String) = values.of(column)
    val (n, columns) = name match {
      case "store" => Stores -> (place("s") ++ Map(
        "s_store_sk" -> "sk", "s_store_id" -> "concat('STORE', sk div 2)", "s_store_name" -> at("id % 3", "ese", "ought", "able"),
        "s_state" -> at("id % 3", "TN", "TN", "GA"), "s_county" -> at("id % 2", counties: _*), "s_city" -> at("id % 2", cities: _*),
        "s_market_id" -> at("id % 3", 8, 8, 5), "s_gmt_offset" -> at("id % 3", -5, -5, -6), "s_number_employees" -> "200 + id * 17",
        "s_company_id" -> "1", "s_company_name" -> "'Unknown'"))
      case "call_center" => 4 -> (place("cc") ++ Map("cc_call_center_sk" -> "sk", "cc_county" -> at("id % 2", counties: _*)))
      case "catalog_page" => 40 -> Map("cp_catalog_page_sk" -> "sk", "cp_catalog_page_id" -> "concat('PAGE', sk div 2)")
      case "web_site" => 6 -> (place("web") ++ Map("web_site_sk" -> "sk", "web_site_id" -> "concat('SITE', sk div 2)",
        "web_company_name" -> at("id % 2", "pri", "able"), "web_name" -> "concat('site_', id div 2)"))
      case "web_page" => 20 -> Map("wp_web_page_sk" -> "sk", "wp_char_count" -> at("id % 2", 5100, 3000))
      case "warehouse" => 5 -> (place("w") ++ Map("w_warehouse_sk" -> "sk", "w_warehouse_name" -> "concat('Warehouse of number ', sk)",
        "w_warehouse_sq_ft" -> "50000 + 1000 * id"))
      case "ship_mode" => 20 -> Map("sm_ship_mode_sk" -> "sk", "sm_type" -> at("id % 3", "EXPRESS", "OVERNIGHT", "REGULAR"),
        "sm_carrier" -> at("id % 4", "DHL", "BARIAN", "UPS", "FEDEX"))
      case "reason" => 35 -> Map("r_reason_sk" -> "sk", "r_reason_desc" -> "concat('reason ', sk)")
      case "income_band" => 20 -> Map("ib_income_band_sk" -> "sk", "ib_lower_bound" -> "id * 10000 + 1", "ib_upper_bound" -> "sk * 10000")
      case "promotion" => 30 -> (Map("p_promo_sk" -> "sk", "p_item_sk" -> s"1 + ${v("item").pick(Items)}") ++
        Seq("dmail", "email", "catalog", "tv", "radio", "press", "event", "demo").map(c => s"p_channel_$c" -> v(c).one("Y", "N", "N")))
      case "customer_demographics" => Demographics -> Map("cd_demo_sk" -> "sk", "cd_gender" -> at("id % 2", "M", "F"),
        "cd_marital_status" -> at("id div 2 % 5", "M", "S", "D", "W", "U"),
        "cd_education_status" -> at("id div 10 % 7", educations: _*),
        "cd_credit_rating" -> v("rating").one("Low Risk", "High Risk", "Good", "Unknown"), "cd_dep_count" -> v("dep").pick(7),
        "cd_dep_employed_count" -> v("employed").pick(7), "cd_dep_college_count" -> v("college").pick(7),
        "cd_purchase_estimate" -> s"500 * (1 + ${v("estimate").pick(20)})")
      case "household_demographics" => Households -> Map("hd_demo_sk" -> "sk", "hd_income_band_sk" -> s"1 + ${v("band").pick(20)}",
        "hd_buy_potential" -> at("id % 7", ">10000", "unknown", "Unknown", "1001-5000", "0-500", "501-1000", "5001-10000"),
        "hd_vehicle_count" -> "id div 7 % 5", "hd_dep_count" -> "id div 35 % 10")
      case "customer_address" => Addresses -> (place("ca") ++ Map("ca_address_sk" -> "sk", "ca_zip" -> v("zip").one(zips: _*),
        "ca_gmt_offset" -> v("gmt").one(-5, -5, -6, -7), "ca_street_number" -> "sk", "ca_county" -> v("county").one(counties.take(7): _*)))
      case "customer" => Customers -> Map("c_customer_sk" -> "sk", "c_customer_id" -> "concat('CUSTOMER', sk)",
        "c_current_cdemo_sk" -> demographics(v("cdemo")), "c_current_hdemo_sk" -> s"1 + ${v("hdemo").pick(Households)}",
        "c_current_addr_sk" -> s"1 + ${v("addr").pick(Addresses)}", "c_first_sales_date_sk" -> s"$FirstDay + ${v("sales").pick(1000)}",
        "c_first_shipto_date_sk" -> s"$FirstDay + ${v("shipto").pick(1000)}",
        "c_first_name" -> v("first").one("Ada", "Emil", "Kurt", "Lise", "Max"),
        "c_last_name" -> v("last").one("Born", "Curie", "Dirac", "Euler", "Fermi", "Gauss", "Hahn"),
        "c_preferred_cust_flag" -> v("flag").one("Y", "Y", "N"), "c_birth_month" -> s"1 + ${v("month").pick(12)}",
        "c_birth_year" -> s"1930 + ${v("year").pick(60)}", "c_birth_country" -> v("country").one("UNITED STATES", "CANADA"))
      case "item" => Items -> item(values)
    }
    // Columns that the list above has no word of may be null.
    Table(rows(n), columns, columns.keySet, 20)
  }

  private val categories = Seq("Books", "Children", "Electronics", "Home", "Jewelry", "Men", "Music", "Shoes", "Sports", "Women")
  private val classes = Seq(Seq("self-help", "computers"), Seq("reference", "infants"), Seq("personal", "portable", "stereo"),
    Seq("bedding", "decor"), Seq("birdal", "earings"), Seq("pants", "shirts", "accessories"), Seq("classical", "pop"),
    Seq("mens", "womens"), Seq("football", "golf"), Seq("maternity", "dresses", "fragrances"))
  private val brands = Seq("scholaramalgamalg #14", "scholaramalgamalg #7", "exportiunivamalg #9", "scholaramalgamalg #9",
    "amalgimporto #1", "edu packscholar #1", "exportiimporto #1", "importoamalg #1")

  /** Colour, unit and size that query 41 asks for together; the first four of women's items, the others of men's. */
  private val dressed = Seq(("powder", "Ounce", "medium"), ("brown", "Bunch", "small"), ("midnight", "Pallet", "medium"),
    ("cyan", "Cup", "small"), ("floral", "Dozen", "petite"), ("light", "Box", "medium"), ("orange", "Each", "large"),
    ("forest", "Lb", "medium"))

  private def item(values: Values): Map[String, String] = {
    def v(column: String) = values.of(column)
    val category = s"case when id % 15 < 4 then 9 when id % 15 < 8 then 5 else ${v("category").pick(10)} end"
    def chosen(of: ((String, String, String)) => String, other: String) =
      s"if(id % 15 < 8, ${at("least(id % 15, 7)", dressed.map(of): _*)}, $other)"
    val brand = s"case when $category in (0, 1, 2) then ${v("brand").pick(4)} when $category in (5, 6, 9) then 4 + ${v("brand").pick(4)} " +
      s"else ${v("brand").pick(8)} end"
    val ofCategory = classes.zipWithIndex.map { case (of, i) => s"when $i then ${v("class").one(of: _*)}" }
    val manufact = at("sk div 2 % 10", 677, 128, 129, 977, 940, 350, 270, 738, 808, 750)
    Map("i_item_sk" -> "sk", "i_item_id" -> "concat('ITEM', sk div 2)", "i_item_desc" -> "concat('What is said of item ', sk div 2)",
      "i_category_id" -> s"1 + $category", "i_category" -> at(category, categories: _*),
      "i_class" -> s"case $category ${ofCategory.mkString(" ")} end",
      "i_class_id" -> s"1 + ${v("class").pick(3)}", "i_brand_id" -> s"1 + $brand", "i_brand" -> at(brand, brands: _*),
      "i_manufact_id" -> manufact, "i_manufact" -> s"concat('m', $manufact)",
      "i_color" -> chosen(_._1, at("id div 4 % 10", "pale", "chiffon", "slate", "blanched", "burnished", "purple", "burlywood",
        "indian", "spring", "medium")),
      "i_units" -> chosen(_._2, v("unit").one("Tsp", "Case", "Gram")), "i_size" -> chosen(_._3, v("size").one("N/A", "economy")),
      "i_manager_id" -> at("id div 3 % 4", 1, 8, 28, 40), "i_product_name" -> "concat('product ', sk)",
      "i_current_price" -> (s"case id % 4 when 0 then ${v("low").cents(1, 2)} - 0.01 when 1 then ${v("high").cents(68, 74)} " +
        s"else ${v("price").cents(1, 100)} end"),
      "i_wholesale_cost" -> v("cost").cents(1, 60))
  }
}
