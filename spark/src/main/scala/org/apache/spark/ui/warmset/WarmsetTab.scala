package org.apache.spark.ui.warmset

import scala.util.control.NonFatal
import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest
import org.json4s.JValue

import io.warmset.spark.StatsHistory
import io.warmset.spark.ui.{StoreState, ViewJson, WarmsetRender, WarmsetView}
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

/**
 * The *Warmset* tab of Spark's web interface, at /warmset/, and the same as JSON, at /warmset/json.
 *
 * Invariant: it only reads, and asks for the view again at each request. Where Spark's interface is
 * off or not as expected, the application runs on without the tab.
 */
private[spark] final class WarmsetTab(ui: SparkUI, view: () => WarmsetView)
  extends SparkUITab(ui, "warmset") {
  attachPage(new WarmsetPage(this, view))
}

private[warmset] final class WarmsetPage(tab: WarmsetTab, view: () => WarmsetView)
  extends WebUIPage("") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    def link(rddId: Int) =
      Some(UIUtils.prependBaseUri(request, tab.basePath, s"/storage/rdd/?id=$rddId"))
    WarmsetPage.inSpark(request, WarmsetRender.content(view(), link), tab)
  }

  override def renderJson(request: HttpServletRequest): JValue = ViewJson.of(view())
}

private[warmset] object WarmsetPage {
  /** Versions of Spark differ in how many switches come last. */
  private lazy val header = UIUtils.getClass.getMethods.find(_.getName == "headerSparkPage").get

  /** Spark's own page around the content, with no help text and every switch off. */
  private def inSpark(
      request: HttpServletRequest,
      content: Seq[Node],
      tab: WarmsetTab): Seq[Node] = {
    val named = Seq[AnyRef](request, "Warmset", () => content, tab, None)
    val switches = Seq.fill(header.getParameterCount - named.length)(Boolean.box(false))
    header.invoke(UIUtils, named ++ switches: _*).asInstanceOf[Seq[Node]]
  }
}

object WarmsetTab extends Logging {
  /** Shows an application that caches in regions. */
  def attach(sc: SparkContext, history: StatsHistory): Unit =
    attach(sc, () => ViewBuilder.view(history, sc.statusStore, System.currentTimeMillis))

  /** Says that Spark caches as it does without Warmset, and why. */
  def attachStock(sc: SparkContext, reason: String): Unit =
    attach(sc, () =>
      WarmsetView(StoreState.Stock(reason), Nil, Nil, Nil, System.currentTimeMillis))

  private def attach(sc: SparkContext, view: () => WarmsetView): Unit =
    try sc.ui.foreach(ui => ui.attachTab(new WarmsetTab(ui, view)))
    catch {
      case NonFatal(cause) => logWarning("There is no Warmset tab in Spark's web interface", cause)
      case cause: LinkageError =>
        logWarning("There is no Warmset tab: Spark's web interface is not as expected", cause)
    }
}
